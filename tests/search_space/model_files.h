#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace meshwright {

// Files of small models, as the Hugging Face hub has them.

using Json = nlohmann::json;

// The keys that most families share, with h 64, 8 heads, V 100 and 4 layers.
inline Json Decoder(const std::string& model_type) {
  return {{"model_type", model_type}, {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 4},   {"num_attention_heads", 8}, {"vocab_size", 100},
          {"num_key_value_heads", 2}};
}

inline Json With(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

inline Json Without(Json config, const std::string& key) {
  config.erase(key);
  return config;
}

}  // namespace meshwright
