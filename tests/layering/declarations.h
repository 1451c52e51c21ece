#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// These functions find the names that a C++ source declares or uses, as far as its tokens show.
// Comments, strings and preprocessor lines do not count.

struct Declarations {
  std::set<std::string> types = {};   // defined outside every function and type
  std::set<std::string> others = {};  // functions, members, nested types and forward declarations

  [[nodiscard]] bool Declares(const std::string& name) const {
    return types.contains(name) || others.contains(name);
  }
};

Declarations DeclarationsOf(std::string_view text);

// A name that may be that of a type.
struct TypeUse {
  std::string name;
  int line = 0;  // line of its first use
};

// Returns the names that a source uses and that begin with a capital letter, each once. Names after
// ".", "->" and "::" are left out, because they belong to what precedes them.
std::vector<TypeUse> TypesUsedIn(std::string_view text);

}  // namespace meshwright
