#pragma once

#include <string>

namespace meshwright {

// One key of a configuration with its value, as a file or a command states it.
struct Setting {
  std::string key = {};    // "tensor-model-parallel-size"; "model.model_config.hidden_size"
  std::string value = {};  // a scalar as it stands, or a list as JSON; empty: a switch
  std::string place = {};  // "run.sh line 12"; empty: not known
  // The variable that the value depends on and that the file does not set, such as "$NNODES";
  // empty if there is none.
  std::string unresolved = {};
  bool operator==(const Setting&) const = default;
};

}  // namespace meshwright
