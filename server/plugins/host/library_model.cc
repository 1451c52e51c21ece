#include "server/plugins/host/library_model.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>

namespace meshwright {
namespace {

using GetApi = const mw_costmodel_api* (*)(std::uint32_t, std::uint32_t);

absl::Status Refused(const std::string& path, const std::string& why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", path, why));
}

}  // namespace

absl::StatusOr<const mw_costmodel_api*> LoadLibraryModel(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Refused(path, dlerror());
  void* const entry = dlsym(library, MW_COSTMODEL_ENTRY);
  if (entry == nullptr) return Refused(path, "has no " MW_COSTMODEL_ENTRY);
  const auto get_api = reinterpret_cast<GetApi>(entry);
  const mw_costmodel_api* const api = get_api(MW_COSTMODEL_ABI_MAJOR, MW_COSTMODEL_ABI_MINOR);
  if (api == nullptr) {
    return Refused(path, fmt::format("does not speak ABI {}", MW_COSTMODEL_ABI_MAJOR));
  }
  // This is the whole table of version 1.0; no version has a shorter one.
  if (api->size < offsetof(mw_costmodel_api, fit_calibration) + sizeof(api->fit_calibration)) {
    return Refused(path, fmt::format("its table has {} bytes; was `size` set?", api->size));
  }
  if (api->abi_major != MW_COSTMODEL_ABI_MAJOR) {
    return Refused(path,
                   fmt::format("was built for ABI {}.{}; this host has {}.{}", api->abi_major,
                               api->abi_minor, MW_COSTMODEL_ABI_MAJOR, MW_COSTMODEL_ABI_MINOR));
  }
  const bool is_complete = api->info != nullptr && api->open_context != nullptr &&
                           api->close_context != nullptr && api->estimate_batch != nullptr &&
                           api->release_text != nullptr;
  if (!is_complete) {
    return Refused(path,
                   "its table lacks one of info, open_context, close_context, "
                   "estimate_batch, release_text");
  }
  if (api->info->size < sizeof(mw_info)) return Refused(path, "mw_info: was `size` set?");
  return api;
}

}  // namespace meshwright
