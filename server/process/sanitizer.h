#pragma once

namespace meshwright {

// Whether this program was compiled with AddressSanitizer, which reserves terabytes of address
// space: RLIMIT_AS cannot hold in such a build.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kHasAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

}  // namespace meshwright
