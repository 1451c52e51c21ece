#pragma once

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace meshwright {

// A connection that sends what it is told and reads what comes.
class HttpConnection {
 public:
  explicit HttpConnection(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    const int port = std::stoi(address.substr(colon + 1));
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(port)});
    socket_.set_option(boost::asio::ip::tcp::no_delay(true));
  }
  void Send(const std::string& text) { boost::asio::write(socket_, boost::asio::buffer(text)); }
  void Get(const std::string& target, const std::string& fields = "") {
    Send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", target, fields));
  }
  // Sends a request with a body of JSON.
  void Send(const std::string& method, const std::string& target, const std::string& body,
            const std::string& fields = "Content-Type: application/json\r\n") {
    Send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", method,
                     target, fields, body.size(), body));
  }
  // Reads up to and with the text, or to the end of the connection.
  std::string ReadTo(const std::string& text) {
    boost::system::error_code error;
    const std::size_t size = boost::asio::read_until(socket_, buffer_, text, error);
    return Take(error ? buffer_.size() : size);
  }
  std::string ReadAll() {
    boost::system::error_code error;
    boost::asio::read(socket_, buffer_, error);
    return Take(buffer_.size());
  }
  // Reads an answer whose length its header states.
  std::string ReadAnswer() {
    std::string answer = ReadTo("\r\n\r\n");
    const std::size_t at = answer.find("Content-Length: ");
    if (at == std::string::npos) return answer;
    const std::size_t length = std::stoul(answer.substr(at + 16));
    if (buffer_.size() < length) {
      boost::asio::read(socket_, buffer_, boost::asio::transfer_exactly(length - buffer_.size()));
    }
    return answer + Take(length);
  }

 private:
  std::string Take(std::size_t size) {
    const auto* const data = static_cast<const char*>(buffer_.data().data());
    std::string text(data, size);
    buffer_.consume(size);
    return text;
  }

  boost::asio::io_context loop_;
  boost::asio::ip::tcp::socket socket_{loop_};
  boost::asio::streambuf buffer_;
};

}  // namespace meshwright
