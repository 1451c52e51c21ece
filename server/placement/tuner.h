#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// The history that a placement learns from, and the ways to end it.
struct PlacementControl {
  HistorySource history = {};
  std::stop_token cancel = {};
  std::chrono::system_clock::time_point end = std::chrono::system_clock::time_point::max();
  std::size_t most_threads = 0;  // at the same time; 0: as many as there are cores
  // Called after each question, one call at a time, with those that are answered and all of them.
  std::function<void(std::size_t, std::size_t)> progress = {};
};

// Answers questions as `tune` does without trials, each of those with equal fingerprints once.
class PlacementTuner {
 public:
  // `knowledge` must outlive this.
  PlacementTuner(const Knowledge& knowledge, PlacementControl control);

  // Answers all questions, on all cores; their order decides nothing. A question that cannot be
  // asked, because its job cannot run on its nodes, has the mistake as its reason. Returns
  // CANCELLED if it was stopped, DEADLINE_EXCEEDED if its end came before all were answered, and
  // else the first error that is not about a question.
  absl::StatusOr<std::vector<TunedNodes>> Answer(const std::vector<v1::TuneRequest>& questions);

  [[nodiscard]] std::int64_t question_count() const { return question_count_; }

 private:
  struct Work {
    ResolvedStudy study = {};
    absl::StatusOr<TunedNodes> answer = TunedNodes();
  };

  absl::StatusOr<TunedNodes> AnswerOne(ResolvedStudy& study) const;
  void Run(std::vector<Work>& work) const;
  static absl::Status LateStatus(const std::vector<Work>& work);

  const Knowledge& knowledge_;
  const PlacementControl control_;
  std::map<std::string, TunedNodes> answers_;  // by the fingerprints of the question
  std::int64_t question_count_ = 0;
};

}  // namespace meshwright
