#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/tuner/export/text/refusals.h"

namespace meshwright {

// A command-line flag, such as "--bf16" or "--recompute-modules core_attn mlp".
struct Flag {
  std::string name = {};
  std::string value = {};  // empty: a switch
};

// Returns the value as a configuration file has it: true for a switch, a list for several words,
// and texts without the quotes of a shell.
nlohmann::ordered_json ValueOf(const Flag& flag);

// Collects command-line flags and every field that the framework has no flag for.
class FlagList {
 public:
  // `refusals` outlives the list.
  explicit FlagList(Refusals& refusals) : refusals_(refusals) {}

  void Add(std::string_view flag);
  void Add(std::string_view flag, int value);
  void Add(std::string_view flag, double value);  // shortest form that parses to the same value
  void Add(std::string_view flag, std::string_view value);

  // Records a field that has no flag (Refusals::Refuse).
  void Refuse(std::string_view field, std::string description);

  [[nodiscard]] const std::vector<Flag>& flags() const { return flags_; }
  [[nodiscard]] Refusals& refusals() const { return refusals_; }

  // Returns one flag per line, continued with a backslash as in a shell.
  [[nodiscard]] std::string Text() const;

 private:
  std::vector<Flag> flags_;
  Refusals& refusals_;
};

}  // namespace meshwright
