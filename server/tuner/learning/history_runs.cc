#include "server/tuner/learning/history_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"

namespace meshwright {
namespace {

// Returns the ids of the kinds of chips.
std::set<std::string_view> ChipsOf(const Problem& problem) {
  std::set<std::string_view> chips;
  for (const NodePool& pool : problem.cluster.pools) chips.insert(pool.chip.id);
  return chips;
}

// Makes the runs of one answered question.
class RunResolver {
 public:
  RunResolver(const Problem& problem, const Knowledge& knowledge)
      : problem_(problem), questions_(knowledge) {}

  ResolvedRun Run(const HistoryRow& row) {
    ResolvedRun run = {.stated = row.resolved.problem,
                       .problem = row.resolved.problem,
                       .plan = row.resolved.plan,
                       .modelled = row.resolved.modelled,
                       .outcome = row.outcome,
                       .step_time = row.step_time,
                       .peak_memory = row.peak_memory,
                       .measurement_id = row.measurement_id};
    if (!IsComparable(*run.stated, problem_)) return run;
    if (run.stated->framework_facts != problem_.framework_facts) TakeFacts(row, run);
    run.is_same_job = IsSameJob(*run.problem, problem_);
    return run;
  }

 private:
  // Puts the answered question's framework facts in place of the run's own, if they allow its plan.
  void TakeFacts(const HistoryRow& row, ResolvedRun& run) {
    Question question = row.question;
    question.workload.framework_facts = problem_.framework_facts;
    run.is_by_own_facts = true;
    const auto asked = questions_.Resolve(question);
    if (!asked.ok() || !IsComparable(**asked, problem_)) return;
    absl::StatusOr<ResolvedPlan> plan = ResolvePlan(row.plan, **asked, "plan");
    if (!plan.ok()) return;
    run.is_by_own_facts = false;
    run.problem = ProblemOfPlan(*asked, plan->plan);
    run.plan = std::move(plan->plan);
    run.modelled.reset();
  }

  const Problem& problem_;
  QuestionResolver questions_;
};

// Returns a text that is equal for rows of one run.
std::string RunKey(const HistoryRow& row) {
  std::string key = fmt::format("{} {} {}", JobFingerprint(*row.resolved.problem),
                                MakePlanKey(row.resolved.plan).text, Word(row.outcome));
  if (row.step_time.has_value()) key += fmt::format(" {} s", row.step_time->count());
  if (row.peak_memory.has_value()) key += fmt::format(" {} bytes", row.peak_memory->count);
  return key;
}

}  // namespace

bool IsComparable(const Problem& row, const Problem& problem) {
  return row.profile.name == problem.profile.name && ChipsOf(row) == ChipsOf(problem);
}

std::vector<ResolvedRun> ResolveRuns(const std::vector<HistoryRow>& own, const SharedRows& stored,
                                     const Problem& problem, const Knowledge& knowledge) {
  RunResolver resolver(problem, knowledge);
  std::vector<ResolvedRun> runs;
  runs.reserve(own.size() + stored.size());
  std::multimap<std::string, std::size_t> own_by_key;
  for (const HistoryRow& row : own) {
    if (!stored.empty()) own_by_key.emplace(RunKey(row), runs.size());
    runs.push_back(resolver.Run(row));
  }
  // A run that was made twice appears twice; each of the store's rows matches at most one row.
  for (const std::shared_ptr<const HistoryRow>& shared : stored) {
    const HistoryRow& row = *shared;
    const std::string key = own_by_key.empty() ? "" : RunKey(row);
    const auto same = own_by_key.lower_bound(key);
    if (same == own_by_key.end() || same->first != key) {
      runs.push_back(resolver.Run(row));
      continue;
    }
    runs[same->second].measurement_id = row.measurement_id;
    own_by_key.erase(same);
  }
  return runs;
}

}  // namespace meshwright
