#include "recorder/labels.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"

namespace meshwright {

std::string LabelsJson(const std::map<std::string, std::string>& labels) {
  return nlohmann::json(labels).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::map<std::string, std::string>> ReadLabels(std::string_view json,
                                                              std::string_view study_id) {
  std::map<std::string, std::string> labels;
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  for (const auto& [key, value] : object.items()) {
    if (object.is_object() && value.is_string()) labels[key] = value.get<std::string>();
  }
  if (object.is_object() && labels.size() == object.size()) return labels;
  return WithReason(
      absl::DataLossError(fmt::format("labels of study '{}' cannot be read", study_id)),
      "STORE_CORRUPT");
}

absl::Status SetLabels(Connection* connection, const StudyEdit& edit) {
  for (const std::string& key : edit.removed_labels) {
    RETURN_IF_ERROR(Run(connection, "DELETE FROM study_labels WHERE study_id = ?1 AND key = ?2",
                        edit.study_id, key));
  }
  for (const auto& [key, value] : edit.labels) {
    RETURN_IF_ERROR(Run(connection, R"sql(
INSERT INTO study_labels (study_id, key, value) VALUES (?1, ?2, ?3)
ON CONFLICT (study_id, key) DO UPDATE SET value = excluded.value)sql",
                        edit.study_id, key, value));
  }
  return absl::OkStatus();
}

}  // namespace meshwright
