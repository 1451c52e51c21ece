#pragma once

#include <functional>
#include <type_traits>

#include "absl/status/status.h"
#include "recorder/recorder.h"

namespace meshwright {

using StoreRead = std::function<absl::Status(const Recorder&)>;

// Access to a store for code that has no Recorder of its own; each function lends a Recorder to a
// call.
struct StoreAccess {
  // The call sees committed data and blocks nobody.
  std::function<absl::Status(const StoreRead&)> read = {};
  // Returns when the call's changes are durable, or the reason for which they are not. The call is
  // all or nothing, and must be short, because it blocks all other writers. Its results are valid
  // only if this returns OK.
  std::function<absl::Status(const StoreCall&)> write = {};
};

// Returns the access for code that is the only user of the Recorder.
StoreAccess DirectAccess(Recorder& recorder);

// Returns the StatusOr that `read` returns for the Recorder that the store lends to it.
template <typename Read>
std::invoke_result_t<const Read&, const Recorder&> ReadFrom(const StoreAccess& store,
                                                            const Read& read) {
  std::invoke_result_t<const Read&, const Recorder&> result = absl::UnknownError("not read");
  const absl::Status status = store.read([&](const Recorder& recorder) {
    result = read(recorder);
    return result.status();
  });
  if (!status.ok()) return status;
  return result;
}

// Returns the StatusOr that `write` returns, once its changes are durable.
template <typename Write>
std::invoke_result_t<const Write&, Recorder&> WriteTo(const StoreAccess& store,
                                                      const Write& write) {
  std::invoke_result_t<const Write&, Recorder&> result = absl::UnknownError("not written");
  const absl::Status status = store.write([&](Recorder& recorder) {
    result = write(recorder);
    return result.status();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace meshwright
