#include "search_space/digest/fnv.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

// Section 5 of the draft gives the primes and the offsets.
template <typename Word>
Word Hash(std::string_view bytes, Word offset, Word prime) {
  Word hash = offset;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= prime;
  }
  return hash;
}

}  // namespace

std::uint32_t Fnv1a32(std::string_view bytes) {
  return Hash<std::uint32_t>(bytes, 0x811c9dc5U, 0x01000193U);
}

std::uint64_t Fnv1a64(std::string_view bytes) {
  return Hash<std::uint64_t>(bytes, 0xcbf29ce484222325U, 0x100000001b3U);
}

std::string Fnv1a64Hex(std::string_view bytes) { return fmt::format("{:016x}", Fnv1a64(bytes)); }

std::string Fnv1a128Hex(std::string_view bytes) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kOffset = (Wide{0x6c62272e07bb0142U} << 64U) | 0x62b821756295c58dU;
  constexpr Wide kPrime = (Wide{0x0000000001000000U} << 64U) | 0x000000000000013bU;
  const Wide hash = Hash<Wide>(bytes, kOffset, kPrime);
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(hash >> 64U),
                     static_cast<std::uint64_t>(hash));
}

}  // namespace meshwright
