#include "server/plugins/wire/checksum.h"

#include <fmt/format.h>

#include <cstddef>
#include <fstream>
#include <vector>

#include "search_space/digest/sha256.h"

namespace meshwright {

absl::StatusOr<std::string> FileChecksum(const std::string& path) {
  constexpr std::size_t kReadBytes = 1 << 16;
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("{} cannot be read", path));
  Sha256 digest;
  std::vector<char> part(kReadBytes);
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    digest.Add({part.data(), static_cast<std::size_t>(in.gcount())});
  }
  if (in.bad()) return absl::NotFoundError(fmt::format("{} cannot be read", path));
  return digest.Hex();
}

}  // namespace meshwright
