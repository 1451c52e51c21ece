#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>

namespace meshwright {

// Makes the service of the bad model in a mode. Except for what the mode says, it passes every
// check of `meshwright model check`.
std::unique_ptr<grpc::Service> MakeBadService(const std::string& mode, const std::string& folder);

// Writes to that file that it has begun, and never returns.
[[noreturn]] void Hang(const std::string& folder);

}  // namespace meshwright
