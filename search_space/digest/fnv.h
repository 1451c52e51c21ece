#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

// The FNV-1a hash of Fowler, Noll and Vo (draft-eastlake-fnv-17) in three widths. It tells texts
// apart and detects damage. It does not protect against somebody who searches for a collision;
// Sha256 does.
//
// Plan digests, fingerprints, ids and page tokens contain it and are stored, so its values must
// never change. It is implemented here because the hashes of absl and Boost may differ between
// releases and runs, and OpenSSL has no hash this short.
std::uint32_t Fnv1a32(std::string_view bytes);
std::uint64_t Fnv1a64(std::string_view bytes);

// Return the same hashes as 16 and 32 lower-case hexadecimal digits.
std::string Fnv1a64Hex(std::string_view bytes);
std::string Fnv1a128Hex(std::string_view bytes);

}  // namespace meshwright
