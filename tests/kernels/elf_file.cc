#include "tests/kernels/elf_file.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/support/catch.h"

namespace flashmla::test {

namespace {

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  REQUIRE(in.is_open());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class T>
T read_at(const std::string& bytes, size_t offset) {
  REQUIRE(offset + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::vector<Elf64_Shdr> sections_of(const std::string& bytes) {
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  REQUIRE(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0);
  REQUIRE(header.e_ident[EI_CLASS] == ELFCLASS64);
  std::vector<Elf64_Shdr> sections;
  for (size_t i = 0; i < header.e_shnum; ++i)
    sections.push_back(read_at<Elf64_Shdr>(bytes, header.e_shoff + i * header.e_shentsize));
  return sections;
}

}  // namespace

std::vector<std::string> exported_names(const std::string& file) {
  const std::string bytes = bytes_of(file);
  const auto sections = sections_of(bytes);
  std::vector<std::string> names;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(bytes, section.sh_offset + at);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS) continue;
      names.emplace_back(bytes.c_str() + sections.at(section.sh_link).sh_offset + symbol.st_name);
    }
  }
  return names;
}

std::vector<DeviceCode> device_code(const std::string& file) {
  const std::string magic = "\x50\xED\x55\xBA";
  constexpr uint16_t kPtx = 1;
  constexpr size_t kSmOffset = 28;
  const std::string bytes = bytes_of(file);
  std::vector<DeviceCode> entries;
  for (size_t at = bytes.find(magic); at != std::string::npos; at = bytes.find(magic, at + 1)) {
    if (at % 8 != 0) continue;  // in code that compares with it
    const size_t end = at + read_at<uint16_t>(bytes, at + 6) + read_at<uint64_t>(bytes, at + 8);
    size_t entry = at + read_at<uint16_t>(bytes, at + 6);
    while (entry < end) {
      entries.push_back(
          {.is_ptx = read_at<uint16_t>(bytes, entry) == kPtx, .sm = read_at<uint32_t>(bytes, entry + kSmOffset)});
      entry += read_at<uint32_t>(bytes, entry + 4) + read_at<uint64_t>(bytes, entry + 8);
    }
  }
  return entries;
}

}  // namespace flashmla::test
