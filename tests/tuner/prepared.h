#pragma once

#include <utility>
#include <vector>

#include "server/tuner/learning/history_runs.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/resolved_study.h"
#include "tests/tuner/questions.h"

namespace meshwright {

// Returns the prepared request, before its trials or a search of its whole space. A test that
// brings a launcher of its own need not name one.
inline PreparedQuestion Prepared(StudyRequest request, const HistorySource& source = {}) {
  if (request.trials.has_value() && request.trials->launcher.empty()) {
    request.trials->launcher = kLocalLauncher;
  }
  request.history = ResolvedRows(std::move(request.history));
  return Prepare(ResolveStudy(std::move(request), Known()).value(), Known(), source).value();
}

// Returns the rows as runs that a question learns from.
inline std::vector<ResolvedRun> RunsFor(const Problem& problem,
                                        const std::vector<HistoryRow>& rows) {
  return ResolveRuns(ResolvedRows(rows), {}, problem, Known());
}

}  // namespace meshwright
