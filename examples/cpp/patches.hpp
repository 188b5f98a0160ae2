// What both examples share: keypoints and an image are read, and patches are cut as patchprint cuts them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>
#include <vector>

// An 8-bit grey PGM; with imgcodecs: cv::imread(path, cv::IMREAD_GRAYSCALE).
inline cv::Mat readPgm(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    int width = 0, height = 0, highest = 0;
    file >> magic >> width >> height >> highest;
    if (magic != "P5" || highest != 255 || width < 1 || height < 1) throw std::runtime_error(path + " is no 8-bit grey PGM");
    file.get();
    cv::Mat image(height, width, CV_8U);
    if (!file.read(reinterpret_cast<char*>(image.data), image.total())) throw std::runtime_error(path + " is cut short");
    return image;
}

// Each line is a cv::KeyPoint: x y size angle.
inline std::vector<cv::KeyPoint> readKeypoints(std::istream& lines) {
    std::vector<cv::KeyPoint> keypoints;
    for (cv::KeyPoint k; lines >> k.pt.x >> k.pt.y >> k.size >> k.angle;) keypoints.push_back(k);
    return keypoints;
}

// The image and its halved copies. The pixel of a copy sits at the corner that four pixels share, in the middle of the filter.
inline std::vector<cv::Mat> halvedCopies(const cv::Mat& image) {
    const cv::Mat filter = (cv::Mat_<float>(1, 6) << 1, 5, 10, 10, 5, 1) / 32;
    std::vector<cv::Mat> levels{image};
    while (std::min(levels.back().rows, levels.back().cols) >= 16) {
        const cv::Size half(levels.back().cols / 2, levels.back().rows / 2);
        cv::Mat smooth, copy;
        cv::sepFilter2D(levels.back(), smooth, CV_32F, filter, filter, {2, 2}, 0, cv::BORDER_REPLICATE);
        cv::resize(smooth({0, 0, 2 * half.width, 2 * half.height}), copy, half, 0, 0, cv::INTER_NEAREST);
        copy.convertTo(copy, CV_8U);
        levels.push_back(copy);
    }
    return levels;
}

// A patch covers a square of side patchScale * sigma around the keypoint, turned by its angle; size is twice sigma. It is read
// from the copy whose pixels are nearest in size to those of the patch, as in training.
inline cv::Mat cutPatch(const std::vector<cv::Mat>& levels, const cv::KeyPoint& k, double patchScale, int side) {
    const double spacing = patchScale * k.size / 2 / side, angle = k.angle * CV_PI / 180;
    const int level = std::clamp(static_cast<int>(std::lround(std::log2(spacing))), 0, static_cast<int>(levels.size()) - 1);
    const double shrink = std::ldexp(1.0, -level), x = (k.pt.x + 0.5) * shrink - 0.5, y = (k.pt.y + 0.5) * shrink - 0.5;
    const double c = std::cos(angle) * spacing * shrink, s = std::sin(angle) * spacing * shrink, middle = (side - 1) / 2.0;
    const cv::Matx23d toImage(c, -s, x - (c - s) * middle, s, c, y - (s + c) * middle);
    cv::Mat patch;
    cv::warpAffine(levels[level], patch, toImage, {side, side}, cv::INTER_LINEAR | cv::WARP_INVERSE_MAP, cv::BORDER_REPLICATE);
    return patch;
}

// The number that patchprint export stored under a name in the file ("24.0", "32").
inline double storedNumber(const std::string& network, const std::string& name, const std::string& text) {
    if (text.empty()) throw std::runtime_error(network + " does not tell its " + name + "; write it with patchprint export");
    return std::stod(text);
}

inline void printRows(const float* values, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; ++i, std::puts(""))
        for (size_t j = 0; j < columns; ++j) std::printf("%.7g ", values[i * columns + j]);
}

// Runs describe(network file, image and its halved copies, keypoints); what is wrong becomes one sentence and exit code 2.
template <class Describe>
int runExample(int argc, char** argv, Describe describe) {
    if (argc != 3) return std::fprintf(stderr, "usage: %s net.onnx image.pgm < keypoints.txt\n", argv[0]), 2;
    try {
        const cv::Mat image = readPgm(argv[2]);
        const std::vector<cv::KeyPoint> keypoints = readKeypoints(std::cin);
        if (!keypoints.empty()) describe(argv[1], halvedCopies(image), keypoints);
        return 0;
    } catch (const std::exception& error) {
        return std::fprintf(stderr, "%s\n", error.what()), 2;
    }
}
