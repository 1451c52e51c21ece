#pragma once

#include <string_view>

#include "search_space/import/config_reader.h"
#include "search_space/spec/model.h"

namespace meshwright {

// The next step of somebody whose file is refused.
inline constexpr std::string_view kOwnFormat =
    "write the model in Meshwright's own keys instead (layer_count, hidden_size, ffn_hidden_size, "
    "attention_head_count, kv_head_count, head_dim, vocab_size, mlp, norm, moe, mla, layers)";

// Rejects the keys that change the layers in a way that a ModelSpec cannot describe, and those that
// may change them and that nobody has read. `model` is what was read.
void RejectUnread(ConfigReader& config, const ModelSpec& model);

}  // namespace meshwright
