#pragma once

#include <functional>
#include <type_traits>

#include "absl/status/status.h"
#include "recorder/recorder.h"

namespace meshwright {

using StoreRead = std::function<absl::Status(const Recorder&)>;

// The way to a store for code that has no Recorder of its own: each function lends one to a call.
struct StoreAccess {
  // The call sees what is committed, and keeps nobody waiting.
  std::function<absl::Status(const StoreRead&)> read = {};
  // Returns when what the call stored is durable, or why it is not. The call is all or nothing, and
  // must be done soon, because no other writer has the store meanwhile. What it hands out is true
  // only if this returns OK.
  std::function<absl::Status(const StoreCall&)> write = {};
};

// Returns the access of code that has the Recorder to itself.
StoreAccess DirectAccess(Recorder& recorder);

// Returns the StatusOr that `read` returns for a Recorder that the store lends to it.
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

// Returns the StatusOr that `write` returns, once what it stored is durable.
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
