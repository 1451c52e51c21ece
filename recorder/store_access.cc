#include "recorder/store_access.h"

#include <vector>

namespace meshwright {

StoreAccess DirectAccess(Recorder& recorder) {
  return {.read = [&recorder](const StoreRead& read) { return read(recorder); },
          .write =
              [&recorder](const StoreCall& call) {
                return recorder.RunTogether({&call, 1}).front();
              }};
}

}  // namespace meshwright
