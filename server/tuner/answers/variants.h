#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "estimator/learning/uncertainty.h"
#include "search_space/base/units.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The most combinations of open settings; each is a search of its own.
inline constexpr std::size_t kMaxVariants = 16;

// A prepared question with one value of each setting that the request leaves open.
struct PreparedVariant {
  PreparedQuestion question = {};
  std::vector<WorkloadSetting> settings = {};  // empty: the request leaves none open
  int changed_count = 0;  // settings whose value is not the framework's default
};

// Prepares the question once for each combination of values of the settings that its dimensions
// open. Returns INVALID_ARGUMENT if the workload states such a setting too, if there are more than
// kMaxVariants combinations, or for impossible dimensions; other errors are those of ResolveStudy
// and PrepareSearch.
absl::StatusOr<std::vector<PreparedVariant>> PrepareVariants(const ResolvedStudy& study,
                                                             const Knowledge& knowledge,
                                                             const HistorySource& source);

struct VariantAnswer {
  std::vector<WorkloadSetting> settings = {};
  int changed_count = 0;
  Seconds floor = Seconds(0);  // no plan of the variant is faster
  absl::StatusOr<StudyAnswer> answer;
  // The uncertainty of each plan of an answer that recommends one, in their order; else empty.
  std::vector<TimeUncertainty> uncertainties = {};
};

// Returns the fastest plans of all answers, each with its settings, after the plan to launch. That
// is the fastest of those that the answers recommend, or one that is tied with it and changes fewer
// settings of the framework. A plan on which a setting has no effect is listed once. Returns the
// counts of all, and the baseline of the answer that changes fewest settings and has plans. If all
// are infeasible, returns the one that misses the least memory. A search that was cut and has
// nothing to show is a failure only if no other answer has plans; any other failure always is one.
absl::StatusOr<StudyAnswer> BestOf(const std::vector<VariantAnswer>& answers,
                                   const StudyRequest& request);

}  // namespace meshwright
