#include "server/engine/queue/study_queue.h"

#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

static_assert(kLaneCount == static_cast<int>(Lane::kJobs) + 1);

Lane LaneOf(const StudyRequest& request) {
  return LaneOf(request.trials.has_value() ? request.trials->launcher : std::string_view());
}

Lane LaneOf(std::string_view launcher) {
  return !launcher.empty() && RunsJobs(launcher) ? Lane::kJobs : Lane::kSearches;
}

}  // namespace meshwright
