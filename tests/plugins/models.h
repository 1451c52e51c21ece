#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/tuner/question/problem.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {

// The place of the folders of all models that are started while this lives, so that all their
// processes name it on their command lines.
class ModelFolders {
 public:
  ModelFolders();
  ~ModelFolders();
  ModelFolders(const ModelFolders&) = delete;
  ModelFolders& operator=(const ModelFolders&) = delete;
  [[nodiscard]] const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::optional<std::string> before_;  // TMPDIR
};

// Returns the path of a program of this build.
std::string BuiltProgram(const std::string& name);

// Make manifests of the bad model in a mode, of the C++ template, and of the C template's library.
ModelManifest BadModel(const std::string& mode);
ModelManifest CppTemplate();
ModelManifest CTemplate();
// Makes the manifest of the library that was built against ABI 1.0.
ModelManifest OldLibrary();

// Returns a manifest as the text of its file.
std::string ManifestText(const ModelManifest& manifest);

// Makes a registry that holds only this model.
std::unique_ptr<ModelRegistry> RegistryWith(const TemporaryFolder& folder,
                                            const ModelManifest& manifest,
                                            ModelEvent on_event = {});

// Reacts to failures at once, so that tests are quick.
FailurePolicy QuickPolicy();

// A LLaMA of 7 billion parameters on two nodes of eight A100.
const Problem& SmallProblem();
// Returns `count` legal plans for it, all different: on 16 devices, with micro-batches 1, 2 and 4,
// ...
std::vector<ParallelPlan> SmallPlans(std::size_t count);

// Returns the ids of other processes whose command line or environment names the folder.
std::vector<int> ProcessesNow(const std::string& folder);
// Returns the same once they have ended or will not end.
std::vector<int> ProcessesLeft(const std::string& folder);

}  // namespace meshwright
