#pragma once

#include <string>
#include <vector>

#include "meshwright/v1/catalog.pb.h"
#include "server/plugins/manifest.h"

namespace meshwright {

// Lists the models of a folder, for a server or an embedded command line: the names of their files,
// never their paths, the present state of the files, and the results of their checks. Reads every
// file whole.
v1::ListCostModelsResponse ListCostModels(const std::string& folder,
                                          const std::vector<ModelManifest>& manifests);

}  // namespace meshwright
