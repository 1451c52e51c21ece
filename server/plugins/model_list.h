#pragma once

#include <vector>

#include "meshwright/v1/catalog.pb.h"
#include "server/plugins/manifest.h"

namespace meshwright {

// The models of a folder, by a server or an embedded command line alike: the names of their files
// and never their paths, and in which state the files are now. Reads every file whole.
v1::ListCostModelsResponse ListCostModels(const std::vector<ModelManifest>& manifests);

}  // namespace meshwright
