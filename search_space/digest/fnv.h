#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

// The hash FNV-1a of Fowler, Noll and Vo (draft-eastlake-fnv-17), in three widths. It tells texts
// apart and finds damage; it is no guard against somebody who looks for a collision (Sha256 is).
//
// It stands in plan digests, fingerprints, ids and page tokens, which are stored: the values must
// never change. That is why it is written here: the hashes of absl and Boost may differ between
// releases and runs, and OpenSSL has no hash this short.
std::uint32_t Fnv1a32(std::string_view bytes);
std::uint64_t Fnv1a64(std::string_view bytes);

// The same as lower-case hexadecimal digits: 16 and 32 of them.
std::string Fnv1a64Hex(std::string_view bytes);
std::string Fnv1a128Hex(std::string_view bytes);

}  // namespace meshwright
