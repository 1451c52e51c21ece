#include "server/tuner/learning/prepare.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/history_runs.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {

namespace {

// Adds to `all` what it does not have yet.
void Add(StoreHistory more, StoreHistory& all) {
  for (std::shared_ptr<const HistoryRow>& row : more.rows) {
    const bool is_known = std::ranges::any_of(all.rows, [&row](const auto& other) {
      return other->measurement_id == row->measurement_id;
    });
    if (!is_known) all.rows.push_back(std::move(row));
  }
  for (std::string& warning : more.warnings) {
    if (std::ranges::find(all.warnings, warning) == all.warnings.end()) {
      all.warnings.push_back(std::move(warning));
    }
  }
}

// Reads the history of a problem, and that of each pool alone if it has several. Without a store
// there is none.
absl::StatusOr<StoreHistory> Read(const HistorySource& source, const Problem& problem) {
  if (!source.read) return StoreHistory();
  ASSIGN_OR_RETURN(StoreHistory all, source.read(problem));
  if (problem.cluster.pools.size() == 1) return all;
  for (const NodePool& pool : problem.cluster.pools) {
    ASSIGN_OR_RETURN(StoreHistory alone, source.read(OnlyPool(problem, pool.name)));
    Add(std::move(alone), all);
  }
  return all;
}

std::vector<std::string> NamesOf(const std::vector<NodePool>& pools) {
  std::vector<std::string> names;
  for (const NodePool& pool : pools) names.push_back(pool.name);
  return names;
}

}  // namespace

absl::StatusOr<PreparedQuestion> Prepare(ResolvedStudy study, const Knowledge& knowledge,
                                         const HistorySource& source) {
  StudyRequest& request = study.request;
  const Problem& problem = study.problem;
  request.history_sequence = source.sequence;
  ASSIGN_OR_RETURN(StoreHistory stored, Read(source, problem));
  std::ranges::move(stored.warnings, std::back_inserter(request.warnings));
  std::vector<ResolvedRun> runs = ResolveRuns(request.history, stored.rows, problem, knowledge);
  LearntCalibration learnt = LearnCalibration(TermsOf(request), problem, runs);
  return PreparedQuestion{.request = std::move(study.request),
                          .problem = std::move(study.problem),
                          .baseline = std::move(study.baseline),
                          .runs = std::move(runs),
                          .learnt = std::move(learnt)};
}

absl::StatusOr<LearntCalibration> LearnOf(const Problem& problem,
                                          const std::vector<HistoryRow>& stated,
                                          const Knowledge& knowledge, const HistorySource& source) {
  ASSIGN_OR_RETURN(StoreHistory stored, Read(source, problem));
  const std::vector<ResolvedRun> runs = ResolveRuns(stated, stored.rows, problem, knowledge);
  return LearnCalibration({.sequence = source.sequence, .warnings = std::move(stored.warnings)},
                          problem, runs);
}

const absl::StatusOr<LearntCalibration>& Calibrator::For(const Question& question,
                                                         const Problem& problem) {
  if (question_ != question || pools_ != NamesOf(problem.cluster.pools)) {
    learnt_ = LearnOf(problem, history_, knowledge_, source_);
    question_ = question;
    pools_ = NamesOf(problem.cluster.pools);
  }
  return learnt_;
}

}  // namespace meshwright
