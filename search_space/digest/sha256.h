#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace meshwright {

// Computes the SHA-256 digest (FIPS 180-4) of bytes that come in pieces. OpenSSL does the work.
class Sha256 {
 public:
  Sha256();
  void Add(std::string_view piece);
  // Returns the digest of all pieces so far as 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string Hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace meshwright
