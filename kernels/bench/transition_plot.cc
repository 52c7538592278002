#include "kernels/bench/transition_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bench/output.h"

namespace flashmla::bench {
namespace {

constexpr double kWidth = 820, kHeight = 500;
constexpr double kLeft = 70, kRight = 24, kTop = 64, kBottom = 110;

struct Point {
  double rows, gain;
};

struct Series {
  const char* name;
  const char* colour;
  bool dashed;
  std::vector<Point> points;
};

void add(const TransitionPoint& point, const Timing& padded, const Timing& native, Series& series) {
  if (!point.error.empty() || padded.us <= 0 || native.us <= 0) return;
  series.points.push_back({static_cast<double>(point.query_rows), padded.us / native.us});
}

std::vector<Series> series_of(const std::vector<TransitionPoint>& points) {
  std::vector<Series> all = {{"8 heads, over 64 heads of the same library", "#1b6ca8", false, {}},
                             {"16 heads, over 64 heads of the same library", "#c8553d", false, {}},
                             {"8 heads, over the build that pads", "#1b6ca8", true, {}},
                             {"16 heads, over the build that pads", "#c8553d", true, {}}};
  for (const TransitionPoint& point : points) {
    add(point, point.heads_64, point.heads_8, all[0]);
    add(point, point.heads_64, point.heads_16, all[1]);
    add(point, point.padded_8, point.heads_8, all[2]);
    add(point, point.padded_16, point.heads_16, all[3]);
  }
  all.erase(std::remove_if(all.begin(), all.end(), [](const Series& series) { return series.points.empty(); }),
            all.end());
  return all;
}

// Maps rows and gains to the drawing.
struct Axes {
  double first_rows = 1, last_rows = 2;
  double top_gain = 1;
  double step = 0.5;  // between lines of gain

  double x(double rows) const {
    const double span = std::log2(last_rows) - std::log2(first_rows);
    return kLeft + (std::log2(rows) - std::log2(first_rows)) / span * (kWidth - kLeft - kRight);
  }
  double y(double gain) const { return kHeight - kBottom - gain / top_gain * (kHeight - kTop - kBottom); }
};

Axes axes_for(const std::vector<Series>& all) {
  Axes axes;
  double highest = 1;
  double last = 2, first = 1e9;
  for (const Series& series : all) {
    for (const Point& point : series.points) {
      highest = std::max(highest, point.gain);
      first = std::min(first, point.rows);
      last = std::max(last, point.rows);
    }
  }
  axes.first_rows = all.empty() ? 1 : first;
  axes.last_rows = std::max(last, 2 * axes.first_rows);
  // Five to ten lines.
  axes.step = 0.1;
  for (const double step : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0}) {
    axes.step = step;
    if (highest / step <= 9) break;
  }
  axes.top_gain = std::ceil(highest * 1.04 / axes.step) * axes.step;
  return axes;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes) + escaped(text) + "</text>\n";
}

std::string draw_axes(const Axes& axes) {
  std::string svg;
  const double left = kLeft, right = kWidth - kRight, bottom = kHeight - kBottom;
  for (int line = 0; line * axes.step <= axes.top_gain * 1.0001; ++line) {
    const double gain = line * axes.step;
    svg += format("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dddddd\"/>\n", left, axes.y(gain), right);
    svg += text_at(left - 8, axes.y(gain) + 4, "text-anchor=\"end\"", format(axes.step < 1 ? "%.1f" : "%.0f", gain));
  }
  for (double rows = axes.first_rows; rows <= axes.last_rows; rows *= 2) {
    svg += format("<path d=\"M%.1f %.1fV%.1f\" stroke=\"#eeeeee\"/>\n", axes.x(rows), kTop, bottom);
    svg += text_at(axes.x(rows), bottom + 18, "text-anchor=\"middle\"", format("%.0f", rows));
  }
  svg += format("<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#333333\"/>\n", left, kTop, bottom, right);
  svg += format("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#333333\" stroke-dasharray=\"2 3\"/>\n", left, axes.y(1), right);
  svg += text_at((left + right) / 2, bottom + 40, "text-anchor=\"middle\"", "query rows (requests x query tokens)");
  svg += format("<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">", (kTop + bottom) / 2) +
         "time with padded heads / time with native heads</text>\n";
  return svg;
}

std::string draw(const Series& series, const Axes& axes) {
  std::string path, marks;
  for (const Point& point : series.points) {
    path += format("%c%.1f %.1f", path.empty() ? 'M' : 'L', axes.x(point.rows), axes.y(point.gain));
    marks += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"/>\n",
                    axes.x(point.rows), axes.y(point.gain), series.dashed ? "#ffffff" : series.colour, series.colour);
  }
  return "<path d=\"" + path +
         format("\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", series.colour,
                series.dashed ? " stroke-dasharray=\"6 4\"" : "") +
         marks;
}

std::string draw_legend(const std::vector<Series>& all) {
  std::string svg;
  for (size_t i = 0; i < all.size(); ++i) {
    const double x = kLeft + (i % 2 == 0 ? 0.0 : (kWidth - kLeft - kRight) / 2);
    const double y = kHeight - 42 + (i < 2 ? 0.0 : 22.0);
    svg += format("<path d=\"M%.1f %.1fh30\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", x, y - 4, all[i].colour,
                  all[i].dashed ? " stroke-dasharray=\"6 4\"" : "");
    svg += text_at(x + 38, y, "", all[i].name);
  }
  return svg;
}

}  // namespace

std::string transition_svg(const DeviceReport& report) {
  const std::vector<Series> all = series_of(report.transition);
  const Axes axes = axes_for(all);
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += "<title>Gain of native over padded heads</title>\n";
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  svg += text_at(kLeft, 26, "font-size=\"17\" font-weight=\"bold\"", "Gain of native over padded heads");
  svg += text_at(kLeft, 46, "fill=\"#555555\"",
                 "V4 records, 128 + 512 tokens, up to 8 query tokens a request; cold; " + report.device.name);
  svg += draw_axes(axes);
  for (const Series& series : all) svg += draw(series, axes);
  svg += draw_legend(all);
  return svg + "</svg>\n";
}

}  // namespace flashmla::bench
