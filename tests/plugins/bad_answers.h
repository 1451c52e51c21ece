#pragma once

#include <string>
#include <string_view>

#include "meshwright/costmodel/v1/costmodel.pb.h"

namespace meshwright {

// The answers of the bad model (bad_model.cc): those of a sane one, except for what its mode says.

// Returns true for the plan on which some modes fail.
bool IsPoison(const costmodel::v1::Candidates& candidates, int i);

// The part of a question that the model keeps.
struct BadContext {
  double peak_seconds = 0;  // of a step at the nominal peak
  double parameters = 0;
  double layer_inputs = 0;  // bytes of one sequence, of all layers
  double capacity = 0;      // bytes
  double chip_capacity = 0;
  bool has_double_memory = false;  // of the first question
  double slowness = 1;             // factor that a mode takes from the cluster
  bool is_calibrated = false;
};

// Returns why a question is refused; empty if it is accepted.
std::string WhyRefused(std::string_view mode, const costmodel::v1::OpenContextRequest& request);
BadContext ContextOf(std::string_view mode, const costmodel::v1::OpenContextRequest& request);

// Returns why a batch is refused; empty if it is answered.
std::string WhyRefusedBatch(std::string_view mode, const costmodel::v1::Candidates& candidates);
bool HasBadRow(const costmodel::v1::Candidates& candidates);

constexpr int kStatedBatch = 4096;  // the largest, in modes "batch_..."

// The answer for one candidate; it has a reason unless it is OK.
struct BadAnswer {
  costmodel::v1::CandidateStatus status = costmodel::v1::CANDIDATE_STATUS_OK;
  std::string reason = {};
  double seconds = 0;
  double peak_memory_bytes = 0;
};
BadAnswer Answer(std::string_view mode, const BadContext& context,
                 const costmodel::v1::Candidates& candidates, int i);

}  // namespace meshwright
