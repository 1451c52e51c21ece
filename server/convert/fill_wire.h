#pragma once

#include <vector>

#include "meshwright/v1/estimate.pb.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

void FillAppliedDefaults(const std::vector<AppliedDefault>& defaults,
                         google::protobuf::RepeatedPtrField<v1::AppliedDefault>& wire);

}  // namespace meshwright
