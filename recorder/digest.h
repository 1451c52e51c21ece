#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace meshwright {

// Bytes as text (RFC 4648, section 4), and back; nothing for what is no such text.
std::string ToBase64(std::string_view bytes);
std::optional<std::string> FromBase64(std::string_view text);

// SHA-256 of text that comes in pieces. OpenSSL's, so that no line of it is ours.
class Sha256 {
 public:
  Sha256();
  void Add(std::string_view piece);
  [[nodiscard]] std::string Hex() const;  // of all pieces so far

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace meshwright
