#include "tests/plugins/models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "server/plugins/wire/checksum.h"
#include "tests/events/wait_for.h"
#include "tests/files/processes.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace {

ModelManifest Program(const std::string& name, const std::string& program) {
  ModelManifest manifest = {.name = name, .program = BuiltProgram(program)};
  manifest.sha256 = FileChecksum(manifest.program).value();
  return manifest;
}

ModelManifest Library(const std::string& name, const std::string& library) {
  ModelManifest manifest = {.name = name, .library = BuiltProgram(library)};
  manifest.sha256 = FileChecksum(manifest.library).value();
  return manifest;
}

}  // namespace

ModelFolders::ModelFolders() {
  if (const char* const before = std::getenv("TMPDIR")) before_ = before;
  setenv("TMPDIR", folder_.path().c_str(), 1);
}

ModelFolders::~ModelFolders() {
  if (before_.has_value()) {
    setenv("TMPDIR", before_->c_str(), 1);
  } else {
    unsetenv("TMPDIR");
  }
}

std::string BuiltProgram(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

ModelManifest BadModel(const std::string& mode) {
  ModelManifest manifest = Program("bad", "bad_cost_model");
  manifest.arguments = {"--mode", mode};
  // A model that hangs is waited for until its deadline. Every other batch must be in time, however
  // busy the machine is.
  const bool hangs = mode.find("hang") != std::string::npos;
  manifest.limits.batch_deadline = std::chrono::seconds(hangs ? 3 : 120);
  return manifest;
}

ModelManifest CppTemplate() { return Program("roofline-cpp", "template_cost_model_cpp"); }

ModelManifest CTemplate() { return Library("roofline-c", "libtemplate_cost_model_c.so"); }

ModelManifest OldLibrary() { return Library("abi-1-0", "libabi_1_0_library.so"); }

std::unique_ptr<ModelRegistry> RegistryWith(const TemporaryFolder& folder,
                                            const ModelManifest& manifest, ModelEvent on_event) {
  folder.Write("model.json", ManifestText(manifest));
  return ModelRegistry::Open(folder.path(), QuickPolicy(), std::move(on_event)).value();
}

std::string ManifestText(const ModelManifest& manifest) {
  nlohmann::json json = {{"name", manifest.name}, {"sha256", manifest.sha256}};
  if (!manifest.program.empty()) json["program"] = manifest.program;
  if (!manifest.library.empty()) json["library"] = manifest.library;
  if (!manifest.arguments.empty()) json["arguments"] = manifest.arguments;
  json["batch_deadline_milliseconds"] = manifest.limits.batch_deadline.count();
  return json.dump();
}

FailurePolicy QuickPolicy() {
  return {.cancel_grace = std::chrono::milliseconds(500),
          .first_back_off = std::chrono::milliseconds(1),
          .longest_back_off = std::chrono::milliseconds(5)};
}

const Problem& SmallProblem() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  static const Problem* const problem =
      new Problem(ResolveProblem({.model = {.name = "7b",
                                            .layer_count = 32,
                                            .hidden_size = 4096,
                                            .ffn_hidden_size = 11008,
                                            .attention_head_count = 32,
                                            .kv_head_count = 32,
                                            .head_dim = 128,
                                            .vocab_size = 32000},
                                  .workload = {.sequence_length = 2048, .global_batch_size = 512},
                                  .cluster = {.name = "c",
                                              .pools = {{.name = "a",
                                                         .chip = "nvidia-a100-sxm4-80gb",
                                                         .node_count = 2,
                                                         .devices_per_node = 8}}}},
                                 *knowledge)
                      .value());
  return *problem;
}

std::vector<ParallelPlan> SmallPlans(std::size_t count) {
  std::vector<ParallelPlan> plans;
  for (int offload = 0; offload <= 100; ++offload) {
    for (const int micro_batch : {1, 2, 4, 8}) {
      for (const int tensor : {1, 2, 4, 8}) {
        for (const int pipeline : {1, 2, 4}) {
          if (tensor * pipeline > 16) continue;
          if (plans.size() == count) return plans;
          plans.push_back({.tensor_parallel = tensor,
                           .pipeline_parallel = pipeline,
                           .data_parallel = 16 / tensor / pipeline,
                           .micro_batch_size = micro_batch,
                           .zero_stage = 1,
                           .optimizer_offload_ratio = offload / 100.0});
        }
      }
    }
  }
  return plans;
}

std::vector<int> ProcessesNow(const std::string& folder) {
  return ProcessesWith(folder, {"cmdline", "environ"});
}

std::vector<int> ProcessesLeft(const std::string& folder) {
  std::vector<int> left;
  const bool are_gone = WaitFor([&] {
    left = ProcessesNow(folder);
    return left.empty();
  });
  EXPECT_TRUE(are_gone);
  return left;
}

}  // namespace meshwright
