#include "server/plugins/model_list.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

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

}  // namespace

v1::ListCostModelsResponse ListCostModels(const std::vector<ModelManifest>& manifests) {
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
  }
  return response;
}

}  // namespace meshwright
