#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "vendor_models/abi/meshwright_costmodel.h"

namespace meshwright {

// The contract, answered by a vendor's library, which outlives it.
std::unique_ptr<grpc::Service> MakeLibraryService(const mw_costmodel_api& api);

}  // namespace meshwright
