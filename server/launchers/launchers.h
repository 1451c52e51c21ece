#pragma once

#include "absl/status/statusor.h"
#include "server/tuner/study.h"

namespace meshwright {

// RunStudy (server/tuner/study.h) for whoever has launchers: a request with trials is run by the
// launcher that it names.
absl::StatusOr<StudyAnswer> RunStudyWithTrials(const StudyRequest& request,
                                               const Knowledge& knowledge,
                                               const StudyControl& control);

}  // namespace meshwright
