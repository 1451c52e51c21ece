#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_shelf.h"
#include "server/plugins/running_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// A folder that goes with this.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// Where models that are started while this lives have their folders, so that all their processes
// name it on their command lines.
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

// A program of this build.
std::string BuiltProgram(const std::string& name);

// Manifests of the bad model in a mode, of the C++ template, and of the C template's library.
ModelManifest BadModel(const std::string& mode);
ModelManifest CppTemplate();
ModelManifest CTemplate();
// The library that was built against ABI 1.0.
ModelManifest OldLibrary();

// The same as a file.
std::string ManifestText(const ModelManifest& manifest);

// A shelf with the model alone.
std::unique_ptr<ModelShelf> ShelfWith(const TemporaryFolder& folder, const ModelManifest& manifest,
                                      ModelEvent on_event = {});

// Failures are met at once, so that tests are quick.
FailurePolicy QuickPolicy();

// A LLaMA of 7 billion parameters on two nodes of eight A100.
const Problem& SmallProblem();
// Legal plans of it: of 16 devices, micro-batches 1, 2 and 4, ... `count` of them, all different.
std::vector<ParallelPlan> SmallPlans(std::size_t count);

// Ids of processes whose command line or environment names the folder, which are not this one.
std::vector<int> ProcessesNow(const std::string& folder);
// The same, once they have gone or will not go.
std::vector<int> ProcessesLeft(const std::string& folder);

}  // namespace meshwright
