#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>

namespace meshwright {

// The contract as the bad model keeps it in a mode: but for what the mode says it passes every
// check of `meshwright model check`.
std::unique_ptr<grpc::Service> MakeBadService(const std::string& mode);

}  // namespace meshwright
