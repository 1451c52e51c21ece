#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "vendor_models/abi/meshwright_costmodel.h"

namespace meshwright {

// Serves the contract with a vendor's library, which must outlive the service.
std::unique_ptr<grpc::Service> MakeLibraryService(const mw_costmodel_api& api);

}  // namespace meshwright
