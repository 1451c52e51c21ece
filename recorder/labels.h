#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/records.h"
#include "recorder/sql/connection.h"

namespace meshwright {

// Labels of studies; internal to recorder/.

inline constexpr std::size_t kMaxStudyLabels = 64;

// Writes labels as a JSON object, which SQL compares them with.
std::string LabelsJson(const std::map<std::string, std::string>& labels);

// Reads labels that SQL has written as a JSON object. DATA_LOSS with reason STORE_CORRUPT if the
// text is not such an object.
absl::StatusOr<std::map<std::string, std::string>> ReadLabels(std::string_view json,
                                                              std::string_view study_id);

// Sets and removes the labels of a study that an edit names.
absl::Status SetLabels(Connection* connection, const StudyEdit& edit);

}  // namespace meshwright
