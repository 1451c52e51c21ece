#include "server/engine/study_queue.h"

#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

static_assert(kLaneCount == static_cast<int>(Lane::kJobs) + 1);

Lane LaneOf(const StudyRequest& request) {
  const bool runs_jobs = request.trials.has_value() && RunsJobs(request.trials->launcher);
  return runs_jobs ? Lane::kJobs : Lane::kSearches;
}

}  // namespace meshwright
