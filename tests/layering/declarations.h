#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// These functions find the names that a C++ source declares or uses, as far as its tokens show.
// Comments, strings and preprocessor lines do not count.

struct Declarations {
  // Types that are defined, and functions and constants (kName) that are declared, outside every
  // function and type.
  std::set<std::string> outer = {};
  std::set<std::string> inner = {};  // members, nested types, parameters, local constants

  [[nodiscard]] bool Declares(const std::string& name) const {
    return outer.contains(name) || inner.contains(name);
  }
};

Declarations DeclarationsOf(std::string_view text);

// A name that may be that of a type, a function or a constant.
struct NameUse {
  std::string name;
  int line = 0;  // line of its first use
};

// Returns the names that a source uses and that begin with a capital letter, or with k and one,
// each once. Names after ".", "->" and "::" are left out, because they belong to what precedes
// them.
std::vector<NameUse> NamesUsedIn(std::string_view text);

}  // namespace meshwright
