#pragma once

#include <vector>

#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

void FillAppliedDefaults(const std::vector<AppliedDefault>& defaults,
                         google::protobuf::RepeatedPtrField<v1::AppliedDefault>& wire);

void FillReasons(const std::vector<VerdictFact>& facts,
                 google::protobuf::RepeatedPtrField<v1::VerdictReason>& wire);

void FillHeterogeneous(const Heterogeneous& answer, v1::Heterogeneous& wire);

}  // namespace meshwright
