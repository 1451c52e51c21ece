#pragma once

#include <string_view>
#include <vector>

#include "server/tuner/import/text/setting.h"

namespace meshwright {

// Turns the fields of a configuration of Megatron-Bridge or of a recipe of NeMo into the flags of
// Megatron-LM that they stand for. Other fields keep their path as the key.
std::vector<Setting> BridgeFlags(std::vector<Setting> fields);
std::vector<Setting> NemoFlags(std::vector<Setting> fields);

}  // namespace meshwright
