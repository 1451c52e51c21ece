#pragma once

#include <string>
#include <string_view>

#include "meshwright/costmodel/v1/costmodel.pb.h"

namespace meshwright {

// What the bad model (bad_model.cc) answers: what a sane one would, but for what its mode says.

// The plan that some modes are about.
bool IsPoison(const costmodel::v1::Candidates& candidates, int i);

// What is kept of a question.
struct BadContext {
  double peak_seconds = 0;  // of a step at the nominal peak
  double parameters = 0;
  double layer_inputs = 0;  // bytes of one sequence, of all layers
  double capacity = 0;      // bytes
  double chip_capacity = 0;
  double slowness = 1;  // what a mode makes of the cluster
  bool is_calibrated = false;
};

// Empty: the question is taken.
std::string WhyRefused(std::string_view mode, const costmodel::v1::OpenContextRequest& request);
BadContext ContextOf(std::string_view mode, const costmodel::v1::OpenContextRequest& request);

// Empty: the batch is answered.
std::string WhyRefusedBatch(std::string_view mode, const costmodel::v1::Candidates& candidates);
bool HasBadRow(const costmodel::v1::Candidates& candidates);

constexpr int kStatedBatch = 4096;  // the largest, in modes "batch_..."

// Of one candidate; not OK has a reason.
struct BadAnswer {
  costmodel::v1::CandidateStatus status = costmodel::v1::CANDIDATE_STATUS_OK;
  std::string reason = {};
  double seconds = 0;
  double peak_memory_bytes = 0;
};
BadAnswer Answer(std::string_view mode, const BadContext& context,
                 const costmodel::v1::Candidates& candidates, int i);

}  // namespace meshwright
