#include "server/tuner/learning/joined_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

// Equal for rows of one run, nothing for what Calibrate will refuse.
std::optional<std::string> RunKey(const HistoryRow& row, const Knowledge& knowledge) {
  const absl::StatusOr<Problem> job = ResolveProblem(row.question, knowledge);
  if (!job.ok()) return std::nullopt;
  const absl::StatusOr<ResolvedPlan> plan = ResolvePlan(row.plan, *job, "plan");
  if (!plan.ok()) return std::nullopt;
  std::string key = fmt::format("{} {} {}", JobFingerprint(*job), MakePlanKey(plan->plan).text,
                                Word(row.outcome));
  if (row.step_time.has_value()) key += fmt::format(" {} s", row.step_time->count());
  if (row.peak_memory.has_value()) key += fmt::format(" {} bytes", row.peak_memory->count);
  return key;
}

// A run that was made twice is there twice: each of the store's rows is taken for one at most.
void Join(std::vector<HistoryRow> stored, const Knowledge& knowledge,
          std::vector<HistoryRow>& history) {
  if (stored.empty()) return;
  std::multimap<std::string, std::size_t> own;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (const auto key = RunKey(history[i], knowledge)) own.emplace(*key, i);
  }
  for (HistoryRow& row : stored) {
    const auto key = own.empty() ? std::nullopt : RunKey(row, knowledge);
    const auto same = key.has_value() ? own.lower_bound(*key) : own.end();
    if (same == own.end() || same->first != *key) {
      history.push_back(std::move(row));
      continue;
    }
    history[same->second].measurement_id = std::move(row.measurement_id);
    own.erase(same);
  }
}

}  // namespace

absl::StatusOr<StudyRequest> WithStoreHistory(StudyRequest request, const Problem& problem,
                                              const Knowledge& knowledge,
                                              const HistorySource& source) {
  request.history_sequence = source.sequence;
  if (!source.read) return request;
  ASSIGN_OR_RETURN(StoreHistory stored, source.read(problem));
  std::ranges::move(stored.warnings, std::back_inserter(request.history_warnings));
  Join(std::move(stored.rows), knowledge, request.history);
  return request;
}

}  // namespace meshwright
