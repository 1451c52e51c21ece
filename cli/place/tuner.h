#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/result.pb.h"
#include "meshwright/v1/service.pb.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The part of an answer of `tune` that a placement needs.
struct TunedNodes {
  std::optional<v1::RankedPlan> plan = {};  // the plan to launch; absent: `reason` says why
  double tokens_per_second = 0;
  bool is_mix = false;   // the plan mixes pools, because `tune` recommends it
  bool is_sure = false;  // the plan fits with the least probability that `tune` asks for
  std::string reason = {};
};

// Answers questions as `tune` does without a server, each of those with equal fingerprints once.
class PlacementTuner {
 public:
  // Learns from the store's measurements. `knowledge` must outlive this.
  PlacementTuner(const Knowledge& knowledge, HistorySource history, std::stop_token cancel);

  // Answers all questions, on all cores; their order decides nothing. A question that cannot be
  // asked, because its job cannot run on its nodes, has the mistake as its reason. Returns
  // CANCELLED if it was stopped, and else the first error that is not about a question.
  absl::StatusOr<std::vector<TunedNodes>> Answer(const std::vector<v1::TuneRequest>& questions);

  [[nodiscard]] std::int64_t question_count() const { return question_count_; }

 private:
  struct Work {
    ResolvedStudy study = {};
    absl::StatusOr<TunedNodes> answer = TunedNodes();
  };

  absl::StatusOr<TunedNodes> AnswerOne(const ResolvedStudy& study) const;
  void Run(std::vector<Work>& work) const;

  const Knowledge& knowledge_;
  const HistorySource history_;
  const std::stop_token cancel_;
  std::map<std::string, TunedNodes> answers_;  // by the fingerprints of the question
  std::int64_t question_count_ = 0;
};

}  // namespace meshwright
