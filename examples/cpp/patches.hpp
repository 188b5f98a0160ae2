// What both examples share: keypoints and a photo are read, and patches are cut as patchprint cuts them.
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

// A patch covers a square of side patchScale * sigma around the keypoint, turned by its angle; size is twice sigma.
inline cv::Mat cutPatch(const cv::Mat& image, const cv::KeyPoint& k, double patchScale, int side) {
    const double width = patchScale * k.size / 2, angle = k.angle * CV_PI / 180;
    const int finer = std::max(1, static_cast<int>(std::ceil(width / side)));  // oversample, then average: no aliasing
    const int samples = side * finer;
    const double step = width / samples, c = std::cos(angle) * step, s = std::sin(angle) * step, middle = (samples - 1) / 2.0;
    const cv::Matx23d toImage(c, -s, k.pt.x - (c - s) * middle, s, c, k.pt.y - (s + c) * middle);
    cv::Mat fine, patch;
    cv::warpAffine(image, fine, toImage, {samples, samples}, cv::INTER_LINEAR | cv::WARP_INVERSE_MAP, cv::BORDER_REPLICATE);
    cv::resize(fine, patch, {side, side}, 0, 0, cv::INTER_AREA);
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

// Runs describe(network file, photo, keypoints); what is wrong becomes one sentence and exit code 2.
template <class Describe>
int runExample(int argc, char** argv, Describe describe) {
    if (argc != 3) return std::fprintf(stderr, "usage: %s net.onnx photo.pgm < keypoints.txt\n", argv[0]), 2;
    try {
        const cv::Mat image = readPgm(argv[2]);
        const std::vector<cv::KeyPoint> keypoints = readKeypoints(std::cin);
        if (!keypoints.empty()) describe(argv[1], image, keypoints);
        return 0;
    } catch (const std::exception& error) {
        return std::fprintf(stderr, "%s\n", error.what()), 2;
    }
}
