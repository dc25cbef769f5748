// Shaders of bodies and of the ground.
const SHADOW_LOOKUP = `
  uniform highp sampler2DShadow u_shadow;
  uniform mat4 u_light;
  float lightAt(vec3 p, float radius) {
    vec3 s = (u_light * vec4(p, 1.0)).xyz * 0.5 + 0.5;
    if (any(lessThan(s, vec3(0.0))) || any(greaterThan(s, vec3(1.0)))) return 1.0;
    float start = 6.2832 * fract(52.98 * fract(dot(gl_FragCoord.xy, vec2(0.0671, 0.00584))));
    float lit = 0.0;
    for (int i = 0; i < 12; i++) {
      float a = start + 2.39996 * float(i);
      vec2 o = radius * sqrt((float(i) + 0.5) / 12.0) * vec2(cos(a), sin(a));
      lit += texture(u_shadow, vec3(s.xy + o, s.z));
    }
    return lit / 12.0;
  }`;

const BODY_VERTEX = `#version 300 es
  in vec3 a_place, a_normal;
  in float a_cavity, a_amount;
  in vec2 a_uv;
  in vec4 a_tint;
  uniform mat4 u_camera, u_model;
  out vec3 v_place, v_normal;
  out float v_cavity, v_amount;
  out vec2 v_uv;
  out vec4 v_tint;
  void main() {
    v_uv = a_uv;
    v_tint = a_tint;
    vec4 world = u_model * vec4(a_place, 1.0);
    v_place = world.xyz;
    v_normal = mat3(u_model) * a_normal;
    v_cavity = a_cavity;
    v_amount = a_amount;
    gl_Position = u_camera * world;
  }`;

const BODY_FRAGMENT = `#version 300 es
  precision highp float;
  in vec3 v_place, v_normal;
  in float v_cavity, v_amount;
  in vec2 v_uv;
  in vec4 v_tint;
  uniform vec3 u_eye, u_key, u_colour;
  uniform float u_size, u_ground, u_full, u_heat;
  // Mix of appearance and clay; range of opacities that are drawn; transparency.
  uniform float u_own, u_least, u_most, u_through;
  uniform vec4 u_factor;
  uniform sampler2D u_picture;
  out vec4 colour;
  ${SHADOW_LOOKUP}
  vec3 heat(float x) {
    vec3 cool = vec3(0.82, 0.84, 0.86), warm = vec3(0.98, 0.72, 0.30);
    vec3 hot = vec3(0.86, 0.24, 0.16), most = vec3(0.42, 0.05, 0.28);
    return x < 0.33 ? mix(cool, warm, x / 0.33)
      : x < 0.67 ? mix(warm, hot, (x - 0.33) / 0.34) : mix(hot, most, min((x - 0.67) / 0.33, 1.0));
  }
  void main() {
    vec3 n = normalize(v_normal), e = normalize(u_eye - v_place);
    if (!gl_FrontFacing) n = -n;
    vec4 own = u_factor * v_tint * texture(u_picture, v_uv);
    if (own.a < u_least || own.a >= u_most) discard;
    vec3 base = mix(pow(u_colour, vec3(2.2)), own.rgb, u_own);
    base = mix(base, pow(heat(v_amount / u_full), vec3(2.2)), u_heat);
    float reach = lightAt(v_place + 0.006 * u_size * n, 0.003);
    float wrap = clamp((dot(n, u_key) + 0.18) / 1.18, 0.0, 1.0);
    // Subsurface scattering reddens the edge of a shadow.
    vec3 key = vec3(wrap) + (1.0 - u_heat) * (1.0 - u_own) * vec3(0.10, 0.02, 0.0) * wrap * (1.0 - wrap) * 2.0;
    key *= reach * vec3(1.0, 0.95, 0.88);
    float up = 0.5 + 0.5 * n.y;
    float low = clamp((v_place.y - u_ground) / (0.25 * u_size), 0.0, 1.0);
    vec3 around = mix(vec3(0.42, 0.36, 0.33), vec3(0.62, 0.68, 0.80), up);
    around *= v_cavity * (0.58 + 0.42 * low);
    float side = 1.0 - clamp(dot(n, e), 0.0, 1.0);
    float gloss = 0.18 * reach * pow(clamp(dot(n, normalize(u_key + e)), 0.0, 1.0), 26.0);
    float rim = 0.32 * side * side * side * (0.3 + 0.7 * up);
    vec3 light = base * (0.66 * around + 1.10 * key * min(v_cavity, 1.0));
    light += gloss + rim * (0.22 + base);
    float alpha = mix(1.0, own.a, u_through);
    colour = vec4(alpha * pow(light / (1.0 + 0.18 * light), vec3(1.0 / 2.2)), alpha);
  }`;

const GROUND_VERTEX = `#version 300 es
  in vec2 a_corner;
  uniform mat4 u_camera;
  uniform vec3 u_middle;
  uniform float u_size;
  out vec3 v_place;
  out vec2 v_from;
  void main() {
    v_from = 2.2 * a_corner;
    v_place = u_middle + u_size * vec3(v_from.x, 0.0, v_from.y);
    gl_Position = u_camera * vec4(v_place, 1.0);
  }`;

// Darkens or lightens the page behind the transparent canvas.
const GROUND_FRAGMENT = `#version 300 es
  precision highp float;
  in vec3 v_place;
  in vec2 v_from;
  uniform sampler2D u_near;
  uniform float u_dark, u_size, u_lines;
  out vec4 colour;
  ${SHADOW_LOOKUP}
  void main() {
    float far = length(v_from);
    float fade = 1.0 - smoothstep(0.5, 2.1, far);
    float reach = lightAt(v_place, 0.012);
    float near = texture(u_near, 0.5 + v_from / 2.4).r;
    float shade = 0.34 * (1.0 - reach) * (1.0 - smoothstep(0.9, 1.7, far)) + 0.55 * near;
    vec2 cell = abs(fract(v_place.xz / (0.25 * u_size) + 0.5) - 0.5) * 0.25 * u_size;
    vec2 width = fwidth(v_place.xz);
    vec2 line = 1.0 - smoothstep(0.4 * width, 1.4 * width, cell);
    float grid = 0.055 * u_lines * max(line.x, line.y);
    float glow = mix(0.02, 0.10, u_dark) * fade;
    float black = clamp(shade + (1.0 - u_dark) * grid, 0.0, 0.9) * fade;
    float white = (glow + 1.3 * u_dark * grid * fade) * (1.0 - black);
    colour = vec4(vec3(white), black + white);
  }`;

const PLAIN_VERTEX = `#version 300 es
  in vec3 a_place;
  uniform mat4 u_camera, u_model;
  void main() {
    gl_Position = u_camera * u_model * vec4(a_place, 1.0);
    gl_Position.z -= 0.0002 * gl_Position.w;
  }`;

const PLAIN_FRAGMENT = `#version 300 es
  precision mediump float;
  uniform vec4 u_tint;
  out vec4 colour;
  void main() { colour = u_tint; }`;

// Obstacles are transparent, so that the skin behind them is visible.
const SOLID_VERTEX = `#version 300 es
  in vec3 a_place, a_normal;
  uniform mat4 u_camera, u_model;
  out vec3 v_place, v_normal, v_local;
  void main() {
    vec4 world = u_model * vec4(a_place, 1.0);
    v_place = world.xyz;
    v_local = a_place;
    v_normal = mat3(u_model) * a_normal;
    gl_Position = u_camera * world;
  }`;

const SOLID_FRAGMENT = `#version 300 es
  precision highp float;
  in vec3 v_place, v_normal, v_local;
  uniform vec3 u_eye, u_key, u_colour;
  uniform float u_size, u_smooth, u_plane, u_alpha;
  out vec4 colour;
  ${SHADOW_LOOKUP}
  void main() {
    vec3 e = normalize(u_eye - v_place);
    vec3 n = normalize(mix(cross(dFdx(v_place), dFdy(v_place)), v_normal, u_smooth));
    if (dot(n, e) < 0.0) n = -n;
    float reach = lightAt(v_place + 0.006 * u_size * n, 0.004);
    float side = 1.0 - clamp(dot(n, e), 0.0, 1.0);
    float behind = dot(v_normal, e) < 0.0 ? 0.35 : 1.0;
    float alpha = u_alpha * mix(1.0 + 0.5 * side * side, behind, u_plane);
    vec2 cell = abs(fract(v_local.xz / (0.25 * u_size) + 0.5) - 0.5) * 0.25 * u_size;
    vec2 line = 1.0 - smoothstep(0.4 * fwidth(v_local.xz), 1.4 * fwidth(v_local.xz), cell);
    alpha = clamp(alpha * (1.0 + 0.9 * u_plane * max(line.x, line.y)), 0.0, 1.0);
    float key = clamp((dot(n, u_key) + 0.3) / 1.3, 0.0, 1.0) * mix(0.35, 1.0, reach);
    vec3 light = pow(u_colour, vec3(2.2)) * (0.5 + 0.2 * n.y + 0.75 * key);
    light += 0.15 * pow(clamp(dot(n, normalize(u_key + e)), 0.0, 1.0), 26.0) * reach;
    colour = vec4(alpha * pow(light / (1.0 + 0.18 * light), vec3(1.0 / 2.2)), alpha);
  }`;
