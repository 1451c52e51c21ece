#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/records.h"

namespace meshwright {

// $XDG_STATE_HOME/meshwright/history.db, or ~/.local/state/meshwright/history.db.
std::string DefaultStorePath();

std::int64_t NowMilliseconds();

// The two moments at which an embedded search touches the store. Each opens and closes it, so that
// a search of hours keeps nobody else out. Errors say how to go on without the store.

// Stores a new running study under an id of its own, and takes studies whose process is gone as
// interrupted. `record` states all but id, owner and times.
absl::StatusOr<StudyRecord> BeginLocalStudy(const std::string& store, StudyRecord record);
absl::StatusOr<StudyRecord> EndLocalStudy(const std::string& store, const StudyEnding& ending);

// What a server would answer. A store that does not exist is an empty one. A study whose process is
// gone reads as interrupted.
absl::StatusOr<v1::ListStudiesResponse> ListLocalStudies(const std::string& store, int page_size,
                                                         std::string_view page_token);
absl::StatusOr<v1::GetStudyResponse> GetLocalStudy(const std::string& store, const std::string& id);

}  // namespace meshwright
