#include "server/tuner/import/named_models.h"

#include <nlohmann/json.hpp>

#include "search_space/import/hugging_face.h"
#include "server/tuner/import/named_model_files.h"

namespace meshwright {
namespace {

const nlohmann::json& Table() {
  static const auto* const kTable =
      new nlohmann::json(nlohmann::json::parse(named_model_files().front().text));
  return *kTable;
}

const nlohmann::json& ModelsOf(std::string_view framework) {
  return Table().at("frameworks").at(std::string(framework)).at("models");
}

}  // namespace

std::optional<ModelSpec> NamedModel(std::string_view framework, std::string_view name) {
  const nlohmann::json& models = ModelsOf(framework);
  const auto found = models.find(std::string(name));
  if (found == models.end()) return std::nullopt;
  const std::string shape = found->get<std::string>();
  auto model = ImportHuggingFaceConfig(Table().at("shapes").at(shape).dump(), shape);
  if (!model.ok()) return std::nullopt;  // a test reads all of them
  return std::move(model->model);
}

std::vector<std::string> NamesOfModels(std::string_view framework) {
  std::vector<std::string> names;
  for (const auto& [name, shape] : ModelsOf(framework).items()) names.push_back(name);
  return names;
}

}  // namespace meshwright
