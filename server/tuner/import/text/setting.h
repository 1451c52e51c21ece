#pragma once

#include <string>

namespace meshwright {

// One key of a configuration with its value, as a file or a command states it.
struct Setting {
  std::string key = {};    // "tensor-model-parallel-size"; "model.model_config.hidden_size"
  std::string value = {};  // a scalar as it stands, or a list as JSON; empty: a switch
  std::string place = {};  // "run.sh line 12"; empty: not known
  // What the value depends on and the file does not say, such as "$NNODES"; empty: nothing.
  std::string unresolved = {};
  bool operator==(const Setting&) const = default;
};

}  // namespace meshwright
