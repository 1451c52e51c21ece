#include "server/plugins/model_list.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "server/plugins/stored_check.h"
#include "server/plugins/wire/checksum.h"

namespace meshwright {
namespace {

const char* StateOf(const ModelManifest& manifest, const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return "missing";
  if (!manifest.program.empty() && access(file.c_str(), X_OK) != 0) return "not_executable";
  const auto checksum = FileChecksum(file);
  if (!checksum.ok()) return "unreadable";
  return *checksum == manifest.sha256 ? "ok" : "changed";
}

void AddCheck(const std::string& folder, const ModelManifest& manifest, v1::CostModel& model) {
  const auto check = LoadCheck(folder, manifest.name);
  if (!check.ok()) {
    model.mutable_check()->set_error(std::string(check.status().message()));
    return;
  }
  if (!check->has_value()) return;
  v1::CostModelCheck& wire = *model.mutable_check();
  wire.set_time((*check)->time);
  wire.set_chip((*check)->chip);
  wire.set_passed_count((*check)->passed_count);
  wire.set_skipped_count((*check)->skipped_count);
  wire.mutable_failed_checks()->Assign((*check)->failed.begin(), (*check)->failed.end());
  wire.set_is_current((*check)->checksum == manifest.sha256);
}

}  // namespace

v1::ListCostModelsResponse ListCostModels(const std::string& folder,
                                          const std::vector<ModelManifest>& manifests) {
  v1::ListCostModelsResponse response;
  for (const ModelManifest& manifest : manifests) {
    const bool is_program = !manifest.program.empty();
    const std::string& file = is_program ? manifest.program : manifest.library;
    v1::CostModel& model = *response.add_cost_models();
    model.set_name(manifest.name);
    model.set_kind(is_program ? "program" : "library");
    model.set_file(std::filesystem::path(file).filename().string());
    model.set_sha256(manifest.sha256);
    model.set_state(StateOf(manifest, file));
    AddCheck(folder, manifest, model);
  }
  return response;
}

}  // namespace meshwright
