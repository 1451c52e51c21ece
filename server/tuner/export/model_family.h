#pragma once

#include "search_space/spec/model.h"

namespace meshwright {

// Models whose layers several frameworks build by a name of their own.
enum class ModelFamily { kOther, kGemma2, kGemma3, kGptOss };

// Returns the family that has a model's layers, whatever its sizes.
ModelFamily FamilyOf(const ModelSpec& model);

// Returns how many layers there are to one with full attention, if the last of each so many has it
// and no other; 0 if there is no such number.
int FullAttentionInterval(const ModelSpec& model);

}  // namespace meshwright
